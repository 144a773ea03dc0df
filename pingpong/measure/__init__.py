"""The instrument: clock, buffers, payload, visits and when to stop. It knows no kernel by name."""
