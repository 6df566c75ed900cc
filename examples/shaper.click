// Two interfaces joined as by a cable, through which no more passes than is
// paid for: a rate for each direction.
//
//   linerate run examples/shaper.click A=eth1 B=eth2 TO_A=10Mbps TO_B=2Mbps
//
//   A ---- this ---- B
//
// What comes faster waits, at most QUEUE packets, and is dropped when there are
// more. Rates count whole Ethernet packets. They can be changed while it runs:
// `linerate call shaper to_b.rate 4Mbps`, if it was started with --control. To try it:
//
//   ip netns add a; ip link add eth1 type veth peer name a0 netns a
//   ip link set eth1 up; ip -n a link set a0 up
//   ip -n a addr add 198.18.0.1/24 dev a0      (and so on for b, with .2)
//   ip netns exec b iperf3 -s &
//   ip netns exec a iperf3 -c 198.18.0.2

define($A eth1, $B eth2, $TO_A 10Mbps, $TO_B 10Mbps, $QUEUE 100, $METHOD PCAP);

FromDevice($A, PROMISC true, METHOD $METHOD)
  -> to_b_queue :: Queue($QUEUE) -> to_b :: BandwidthShaper($TO_B) -> ToDevice($B);
FromDevice($B, PROMISC true, METHOD $METHOD)
  -> to_a_queue :: Queue($QUEUE) -> to_a :: BandwidthShaper($TO_A) -> ToDevice($A);
