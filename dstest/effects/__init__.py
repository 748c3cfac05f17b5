"""What servers say that they did, against what clients asked for and were told (discipline 1.5).

A system that writes down what it applies names the file and how a line is read (`EffectLog`).
`reading.py` reads the files of all members, `pairing.py` joins them with the client history,
`replaying.py` does the effects again in their order, `result.py` makes an answer of both.
"""
