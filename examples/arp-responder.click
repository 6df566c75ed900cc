// Answers ARP queries for every address of a network, as proxy ARP does, with the
// address MAC.
//
//   linerate run examples/arp-responder.click DEV=eth1 NET=10.0.0.0/24
//
// needs root. To try it, from a network namespace at the other end of a cable:
//
//   ip netns add a; ip link add eth1 type veth peer name a0 netns a
//   ip link set eth1 up; ip -n a link set a0 up
//   ip -n a addr add 10.0.0.1/24 dev a0
//   ip netns exec a ping -c 1 10.0.0.77    has no answer, but
//   ip netns exec a ip neigh               has the address

define($DEV eth1, $NET 10.0.0.0/24, $MAC 02:00:00:00:00:01);

FromDevice($DEV, PROMISC true)
  -> c :: Classifier(12/0806 20/0001, -)
  -> ARPResponder($NET $MAC)
  -> Queue
  -> ToDevice($DEV);

c [1] -> Discard;
