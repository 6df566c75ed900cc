// A router whose interfaces stay the host's: it forwards, and the kernel of its
// machine answers ARP, pings and ssh, runs routing daemons, and decides about
// routes. What `ip route` says is what packets do.
//
//   linerate run examples/host-router.click LEFT=eth1 RIGHT=eth2 \
//     LEFT_IP=198.18.0.1/24 RIGHT_IP=198.19.0.1/24
//
//   hosts ---- LEFT  this  RIGHT ---- hosts
//             LEFT_TAP   RIGHT_TAP
//               the kernel
//
// Packets are taken away from the kernel (METHOD XDP), which has a tap in place
// of each interface, with its Ethernet address and the address given here. What
// is for the host goes to the tap, what the host sends there goes out. The
// interfaces themselves must have no addresses. To try it:
//
//   ip netns add a; ip link add eth1 type veth peer name a0 netns a
//   ip link set eth1 up; ip -n a link set a0 up
//   ip -n a addr add 198.18.0.2/24 dev a0
//   ip -n a route add default via 198.18.0.1   (and so on for b, on the right)
//   ip netns exec a ping 198.18.0.1            the kernel answers
//   ip netns exec a ping 198.19.0.2            and this forwards, as for
//   ip route add 203.0.113.0/24 via 198.19.0.2
//
// Packets without a route are answered, as long as the kernel has no default
// route.

define($LEFT left, $RIGHT right, $LEFT_TAP tap-left, $RIGHT_TAP tap-right, $METHOD XDP,
       $LEFT_IP 198.18.0.1/24, $RIGHT_IP 198.19.0.1/24, $LEFT_MTU 1500, $RIGHT_MTU 1500);

AddressInfo(left $LEFT_IP, right $RIGHT_IP);

// An interface and the tap that stands for it. What is to be forwarded leaves
// by the output; what is pushed in goes out with the address ARP says. The
// kernel hears all of ARP, since it has neighbours of its own to find.
elementclass Interface { $device, $tap, $ip, $address |
  FromDevice($device, METHOD $METHOD) -> kind :: Classifier(12/0806, 12/0800, -);
  send :: Queue(1024) -> ToDevice($device);
  FromHost($tap, $address, ETHER $device:eth) -> send;
  host :: ToHost($tap);
  kind [0] -> arps :: Tee -> host;
  arps [1] -> replies :: Classifier(20/0002, -) -> [1] arp :: ARPQuerier($ip, $device:eth);
  replies [1] -> Discard;
  kind [1] -> HostEtherFilter($device:eth) -> CheckIPHeader(14)
    -> for_host :: IPClassifier(dst host left:ip or dst host right:ip or dst net 224.0.0.0/4
                                or dst host 255.255.255.255 or dst host $ip:bcast, -);
  for_host [0] -> host;
  for_host [1] -> honest :: IPFilter(deny src net 0.0.0.0/8 or 127.0.0.0/8 or 224.0.0.0/4,
                                     deny src host 255.255.255.255 or left:ip or right:ip,
                                     allow all)
    -> Strip(14) -> output;
  kind [2] -> host;
  input -> [0] arp -> send;
}

// What a router does to a packet it forwards, and what it says when it cannot.
// Output 0: packets to send; output 1: ICMP errors, to be routed themselves.
elementclass Forward { $color, $ip, $mtu |
  input
    -> DropBroadcasts
    -> redirect :: PaintTee($color)
    -> options :: IPGWOptions($ip)
    -> FixIPSrc($ip)
    -> ttl :: DecIPTTL
    -> fragment :: IPFragmenter($mtu)
    -> output;
  redirect [1] -> ICMPError($ip, redirect, host) -> errors :: Null -> [1] output;
  options [1] -> ICMPError($ip, parameterproblem) -> errors;
  ttl [1] -> ICMPError($ip, timeexceeded) -> errors;
  fragment [1] -> ICMPError($ip, unreachable, needfrag, PMTU $mtu) -> errors;
}

left :: Interface($LEFT, $LEFT_TAP, left, $LEFT_IP);
right :: Interface($RIGHT, $RIGHT_TAP, right, $RIGHT_IP);

// 0: for nowhere; 1, 2: by an interface; 3: for what is no address. The kernel's
// table fills it.
routes :: RadixIPLookup(0/0 0, 0.0.0.0/8 3, 127.0.0.0/8 3, 224.0.0.0/4 3);
FollowKernel(routes, $LEFT_TAP 1 left/arp, $RIGHT_TAP 2 right/arp, REFUSED 0, DEFAULT 0);

left -> Paint(1) -> routes;
right -> Paint(2) -> routes;
routes [0] -> ICMPError(left, unreachable, net) -> routes;
routes [3] -> Discard;
routes [1] -> to_left :: Forward(1, left, $LEFT_MTU) -> left;
routes [2] -> to_right :: Forward(2, right, $RIGHT_MTU) -> right;
to_left [1] -> routes;
to_right [1] -> routes;
