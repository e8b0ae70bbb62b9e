"""What a node keeps on its disk, and until when: `kept.py` says it, `pruning_duties.py` deletes the rest."""
