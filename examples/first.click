// The first configuration: packets out of nothing, counted, and thrown away.
//
//   linerate run examples/first.click
//
// needs no network card and no privileges, and runs until Ctrl-C. The table
// shows what each element costs per packet. With `--duration 3s` it ends by
// itself.

InfiniteSource        // packets as fast as they are taken
  -> c :: Counter     // counts them: linerate call, or click -h c.count
  -> Discard;         // the end of their way
