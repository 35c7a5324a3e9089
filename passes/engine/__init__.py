"""What linearize and linear_transpose lend to the rules of calls, branches and loops, whose bodies are graphs."""
