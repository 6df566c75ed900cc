// Answers pings, and the ARP queries before them, for every address of a
// network: hosts that are there as far as ping can tell.
//
//   linerate run examples/ping-responder.click DEV=eth1 NET=198.18.0.0/24
//
//   hosts ---- DEV  this: all of NET
//
// To try it, from a network namespace at the other end of a cable:
//
//   ip netns add a; ip link add eth1 type veth peer name a0 netns a
//   ip link set eth1 up; ip -n a link set a0 up
//   ip -n a addr add 198.18.0.1/24 dev a0
//   ip netns exec a ping 198.18.0.77

define($DEV eth1, $NET 198.18.0.0/24, $METHOD PCAP);

FromDevice($DEV, PROMISC true, METHOD $METHOD)
  -> kind :: Classifier(12/0806 20/0001, 12/0800, -);
send :: Queue -> ToDevice($DEV);

kind [0] -> ARPResponder($NET $DEV:eth) -> send;
kind [1]
  -> HostEtherFilter($DEV:eth, DROP_OWN true)
  -> CheckIPHeader(14)
  -> wanted :: IPClassifier(dst net $NET and ip unfrag and icmp type echo, -)
  -> CheckICMPHeader
  -> ICMPPingResponder
  -> EtherMirror
  -> send;
kind [2] -> Discard;
wanted [1] -> Discard;
