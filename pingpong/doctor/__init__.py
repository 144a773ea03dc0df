"""`pingpong doctor`: what keeps two ranks from measuring here, or makes them slow, said in seconds.

`survey` is what a rank finds out about its host; `rank` tells that (`lines`) and tries to meet the other rank;
`run` starts both and prints what `findings` makes of it. The checks are in `meeting`, `interfaces`, `hca`, `node`.
"""
