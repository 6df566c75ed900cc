// An Ethernet switch of two virtual machines, a container and an uplink. Without UPLINK there is none.
//
//   linerate run examples/guests.click UPLINK=xdp:eth1
//
// The machines reach it by vhost-user, as QEMU has it:
//
//   qemu-system-x86_64 -m 1G -object memory-backend-memfd,id=m,size=1G,share=on
//     -numa node,memdev=m -chardev socket,id=c,path=/run/guest-a.sock,reconnect=1
//     -netdev vhost-user,id=n,chardev=c -device virtio-net-pci,netdev=n ...
//
// the container by memif: VPP, DPDK's net_memif, or `linerate sink memif:/run/guests.sock`. Each of
// them may come later, go and come back; the switch may be restarted while they run.

define($A vhost:/run/guest-a.sock, $B vhost:/run/guest-b.sock,
       $C memif:/run/guests.sock?role=server, $UPLINK null:?count=0);

s :: EtherSwitch;

FromPort($A) -> BPDUGuard -> [0] s [0] -> Queue -> ToPort($A);
FromPort($B) -> BPDUGuard -> [1] s [1] -> Queue -> ToPort($B);
FromPort($C) -> BPDUGuard -> [2] s [2] -> Queue -> ToPort($C);
FromPort($UPLINK) -> BPDUGuard -> [3] s [3] -> Queue -> ToPort($UPLINK);
