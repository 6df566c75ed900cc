// A compound element: a part of a graph with a name and parameters.
//
//   linerate run examples/compound.click
//   click-flatten examples/compound.click
//
// ends by itself after a million packets.

// Sends a copy of every packet to a second output and counts both ways.
elementclass Mirror { $length |
  input -> copies :: Tee(2);
  copies[0] -> through :: Counter -> [0] output;
  copies[1] -> mirrored :: Counter -> Queue($length) -> Unqueue -> [1] output;
}

InfiniteSource(LIMIT 1000000, STOP true)
  -> mirror :: Mirror(2000)
  -> Discard;
mirror[1] -> Discard;
