// A neighbour's messages over two links, as a mirror port shows them: twice. Among them is one
// that a host further away sent in its name.
//
//   cargo run -- run neighbour.click --simtime
//
// The second link only counts when the first is silent for half a second, and packets must come
// from the next hop.

first :: FromIPSummaryDump(TIMING true, FIELDS timestamp ip_src ip_id ip_ttl, DATA "
1.0 10.0.0.1 1 255
1.0 10.0.0.1 1 255
1.1 10.0.0.1 2 247
1.2 10.0.0.1 3 255
1.2 10.0.0.1 3 255
");
second :: FromIPSummaryDump(TIMING true, FIELDS timestamp ip_src ip_id ip_ttl, DATA "
1.0 10.0.0.1 1 255
1.2 10.0.0.1 3 255
2.2 10.0.0.1 4 255
");
Script(wait 2s, stop);

first -> link :: Failover(0.5s)
  -> near :: TTLSecurity(1)
  -> once :: DropDuplicates
  -> messages :: Counter
  -> Discard;
second -> [1] link;
