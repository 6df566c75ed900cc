// An Ethernet switch with two VLANs: hosts of each at an access port, and all
// of them behind a trunk to another switch.
//
//   linerate run examples/vlan-switch.click RED=eth1 BLUE=eth2 TRUNK=eth3
//
// needs root. VLAN 10 is red, VLAN 20 is blue; on the trunk packets carry
// 802.1Q tags.

define($RED eth1, $BLUE eth2, $TRUNK eth3);

s :: VLANSwitch(ACCESS 10, ACCESS 20, TRUNK 10 20);

FromDevice($RED, PROMISC true) -> [0] s [0] -> Queue -> ToDevice($RED);
FromDevice($BLUE, PROMISC true) -> [1] s [1] -> Queue -> ToDevice($BLUE);
FromDevice($TRUNK, PROMISC true) -> [2] s [2] -> Queue -> ToDevice($TRUNK);
