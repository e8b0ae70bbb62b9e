"""Simulates rounds: how short can they be, and what keeps them from being shorter?"""
