// Two interfaces joined as by a cable, and a copy of all that passes: in a
// capture file, and at a third interface for a machine that watches.
//
//   linerate run examples/port-mirror.click A=eth1 B=eth2 MIRROR=eth3 FILE=mirror.pcap
//
//   A ---- this ---- B
//           |  \
//        MIRROR FILE
//
// Without MIRROR the copies go nowhere but to the file. To try it, put a
// network namespace at the other end of each interface,
//
//   ip netns add a; ip link add eth1 type veth peer name a0 netns a
//   ip link set eth1 up; ip -n a link set a0 up
//   ip -n a addr add 198.18.0.1/24 dev a0      (and so on for b, with .2)
//   ip netns exec a ping 198.18.0.2
//   tcpdump -r mirror.pcap
//
// The file is written after every frame, so that it can be read meanwhile.

define($A eth1, $B eth2, $MIRROR "null:mirror", $FILE mirror.pcap, $METHOD PCAP);

FromDevice($A, PROMISC true, METHOD $METHOD) -> from_a :: Tee -> Queue -> ToDevice($B);
FromDevice($B, PROMISC true, METHOD $METHOD) -> from_b :: Tee -> Queue -> ToDevice($A);

// A queue in front of the file: with several workers only one writes.
copies :: Tee -> Queue -> ToDump($FILE, SNAPLEN 0, UNBUFFERED true);
copies [1] -> Queue -> ToDevice($MIRROR);
from_a [1] -> copies;
from_b [1] -> copies;
