"""Gate LLM serving performance with pytest."""
