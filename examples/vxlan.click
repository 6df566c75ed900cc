// An Ethernet network continued at the other end of a VXLAN tunnel (RFC 7348).
//
//   linerate run examples/vxlan.click LAN=eth1 WAN=eth2 \
//     WAN_IP=198.19.0.1/24 REMOTE=198.19.0.2 VNI=42
//
//   hosts ---- LAN  this  WAN ---- network ---- REMOTE ---- hosts
//
// The remote end is anything that speaks VXLAN. To try it with the kernel's:
//
//   ip netns add host;   ip link add eth1 type veth peer name e0 netns host
//   ip netns add remote; ip link add eth2 type veth peer name e0 netns remote
//   ip -n host   addr add 198.18.0.1/24 dev e0; ip -n host   link set e0 mtu 1450 up
//   ip -n remote addr add 198.19.0.2/24 dev e0; ip -n remote link set e0 up
//   ip link set eth1 up; ip link set eth2 up
//   ip -n remote link add vx type vxlan id 42 remote 198.19.0.1 dstport 4789
//   ip -n remote addr add 198.18.0.2/24 dev vx; ip -n remote link set vx up
//   ip netns exec host ping 198.18.0.2
//
// Packets are not cut: hosts have an MTU of 50 bytes less than the network
// between. A remote end in another network needs a GATEWAY.

define($LAN lan, $WAN wan, $METHOD PCAP, $WAN_IP 198.19.0.1/24, $REMOTE 198.19.0.2,
       $GATEWAY $REMOTE, $VNI 42, $DPORT 4789);

AddressInfo(wan $WAN_IP);

// Into the tunnel: all packets of the network.
FromDevice($LAN, PROMISC true, METHOD $METHOD)
  -> VXLANEncap(wan:ip, $REMOTE, $VNI, DPORT $DPORT)
  -> SetIPAddress($GATEWAY)
  -> arp :: ARPQuerier(wan, $WAN:eth)
  -> send :: Queue(1024) -> ToDevice($WAN);

// Out of it: what is VXLAN from the remote end, and of this network.
FromDevice($WAN, METHOD $METHOD)
  -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
kind [0] -> ARPResponder(wan $WAN:eth) -> send;
kind [1] -> [1] arp;
kind [2] -> Strip(14) -> CheckIPHeader
  -> tunnel :: IPClassifier(src host $REMOTE and dst host wan:ip, -)
  -> VXLANDecap($VNI, DPORT $DPORT)
  -> Queue(1024) -> ToDevice($LAN);
kind [3] -> Discard;
tunnel [1] -> Discard;
