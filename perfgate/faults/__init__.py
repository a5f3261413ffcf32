"""The faults, one file each: its action and undo, its expected cost, its facts and words.

A module that has FAULT (:class:`perfgate.model.faults.FaultKind`) is a fault; nothing lists them elsewhere.
"""
