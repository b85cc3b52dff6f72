"""How long does a dispatcher's round take, and what does it cost, when nobody has rows?"""
