// A UDP echo service: what is sent to the port comes back as it was, with
// source and destination exchanged. No checksum changes by that.
//
//   linerate run examples/echo.click DEV=eth1 IP=198.18.0.7 PORT=7
//
//   hosts ---- DEV  this: IP
//
// To try it, from a network namespace at the other end of a cable:
//
//   ip netns add a; ip link add eth1 type veth peer name a0 netns a
//   ip link set eth1 up; ip -n a link set a0 up
//   ip -n a addr add 198.18.0.1/24 dev a0
//   echo hello | ip netns exec a nc -u -w 1 198.18.0.7 7

define($DEV eth1, $IP 198.18.0.7, $PORT 7, $METHOD PCAP);

FromDevice($DEV, PROMISC true, METHOD $METHOD)
  -> kind :: Classifier(12/0806 20/0001, 12/0800, -);
send :: Queue -> ToDevice($DEV);

kind [0] -> ARPResponder($IP $DEV:eth) -> send;
// Nothing comes from the port itself: two echo services would talk for ever.
kind [1]
  -> HostEtherFilter($DEV:eth, DROP_OWN true)
  -> CheckIPHeader(14)
  -> wanted :: IPClassifier(dst host $IP and udp dst port $PORT and not src port $PORT, -)
  -> IPMirror
  -> EtherMirror
  -> send;
kind [2] -> Discard;
wanted [1] -> Discard;
