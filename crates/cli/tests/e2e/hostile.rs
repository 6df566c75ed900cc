//! Hostile clients at every listener: honest traffic of the same process loses nothing, honest
//! clients are served, the process stays small, and SIGTERM ends it while the attacks go on.
//!
//! `cargo xtask soak` runs these attacks for minutes and measures.

use std::{path::Path, time::Duration};

use linerate_test_support::hostile;

use crate::support::LINERATE;

/// Duration of the attacks on a listener; each has at least one turn.
const ATTACK: Duration = Duration::from_secs(5);

/// Attacks a listener, and demands that nothing came of it.
#[track_caller]
fn withstands(listener: &str) {
    let listener = hostile::listener(listener);
    hostile::run(&listener, Path::new(LINERATE), ATTACK).assert_unharmed();
}

#[test]
#[ignore = "needs root, alone"]
fn run_withstands_control_clients_at_a_tcp_port() {
    withstands("control-tcp");
}

#[test]
#[ignore = "needs root, alone"]
fn run_withstands_control_clients_that_have_not_its_token() {
    withstands("control-token");
}

#[test]
#[ignore = "needs root, alone"]
fn run_withstands_control_clients_at_a_unix_socket() {
    withstands("control-unix");
}

#[test]
#[ignore = "needs root, alone"]
fn forward_withstands_control_clients_at_a_tcp_port() {
    withstands("forward-control-tcp");
}

#[test]
#[ignore = "needs root, alone"]
fn forward_withstands_control_clients_at_a_unix_socket() {
    withstands("forward-control-unix");
}

#[test]
#[ignore = "needs root, alone"]
fn a_cluster_withstands_programs_that_share_its_memory() {
    withstands("cluster-sharing");
}

#[test]
#[ignore = "needs root, alone"]
fn a_cluster_withstands_programs_with_memory_of_their_own() {
    withstands("cluster-isolated");
}

#[test]
#[ignore = "needs root, alone"]
fn a_cluster_withstands_programs_beside_one_of_libpcap() {
    withstands("cluster-pcap");
}

#[test]
#[ignore = "needs root, alone"]
fn generate_withstands_control_clients() {
    withstands("generate-control-unix");
}

#[test]
#[ignore = "needs root, alone"]
fn a_memif_server_withstands_its_clients() {
    withstands("memif-server");
}

#[test]
#[ignore = "needs root, alone"]
fn a_switch_withstands_controllers_of_other_users() {
    withstands("openflow-tcp");
}

#[test]
#[ignore = "needs root, alone"]
fn a_memif_client_withstands_its_servers() {
    withstands("memif-client");
}

#[test]
#[ignore = "needs root, alone"]
fn a_switch_that_takes_anybody_withstands_controllers() {
    withstands("openflow-tcp-insecure");
}

#[test]
#[ignore = "needs root, alone"]
fn a_vhost_device_withstands_its_drivers() {
    withstands("vhost-device");
}

#[test]
#[ignore = "needs root, alone"]
fn a_switch_withstands_controllers_at_a_unix_socket() {
    withstands("openflow-unix");
}

#[test]
#[ignore = "needs root, alone"]
fn a_vhost_driver_withstands_its_devices() {
    withstands("vhost-driver");
}

#[test]
#[ignore = "needs root, alone"]
fn a_switch_withstands_strangers_to_tls() {
    withstands("openflow-tls");
}
