"""What the benchmark `training` measures: this training beside that of others."""
