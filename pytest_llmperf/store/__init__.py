"""What is kept: the artifacts of every run, and the baselines that runs are judged against."""
