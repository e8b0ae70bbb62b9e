"""A simulation of a round: how short may it be, and what stands in the way?"""
