"""Parts of the benchmark `training`: this project's training beside that of others."""
