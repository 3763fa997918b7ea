"""Which arms to pull and how often: Max-Det collections, G-optimal designs, scaling of features.

What is here are functions of feature vectors alone. Nothing here knows of budgets, phases, privacy
or rewards: that is what the policies above make of a design. Vectors are finite 2-D arrays with a
row and a column at least; an argument outside the range that is stated for it is a `ValueError`.
"""
