"""Parts of `honest.py`: adversarial values, node layouts, real traces, lies, wrong wirings."""
