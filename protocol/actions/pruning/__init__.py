"""What a node keeps on its disk, and until when: `kept.py` says it, `duties.py` deletes the rest."""
