//! TLS: peers with a certificate of the right authority are let in, and no others.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use linerate_ofswitch::control::{Agent, AgentOptions, Credentials, Target};
use linerate_test_support::authority::{Authority, EC, IssuedCert, RSA};
use linerate_test_support::{require, wait_until};

use crate::controller::{PATIENCE, switch};

fn credentials(issued: IssuedCert) -> Credentials {
    let IssuedCert { key, certificate, authority: authorities } = issued;
    Credentials { key, certificate, authorities }
}

/// Open vSwitch's client asks whether the switch is there.
fn probe(port: u16, credentials: &Credentials, options: &[&str]) -> bool {
    let path = |path: &PathBuf| path.to_string_lossy().into_owned();
    let status = Command::new(require("ovs-ofctl"))
        .args(["--timeout=5", "-OOpenFlow13", "-p", &path(&credentials.key)])
        .args(["-c", &path(&credentials.certificate), "-C", &path(&credentials.authorities)])
        .args(options)
        .args(["probe", &format!("ssl:127.0.0.1:{port}")])
        .stderr(Stdio::null())
        .status();
    status.expect("ovs-ofctl runs").success()
}

fn serve(credentials: &Credentials) -> (Agent, u16) {
    let options = AgentOptions {
        targets: vec!["pssl:0:127.0.0.1".parse().expect("a target")],
        credentials: Some(credentials.clone()),
        ..AgentOptions::default()
    };
    let agent = Agent::start(switch(), options).expect("an agent");
    let Target::Listen { address, .. } = agent.status().targets[0].target else {
        panic!("it listens");
    };
    (agent, address.port())
}

#[test]
#[ignore = "needs ovs-ofctl and openssl"]
fn certificates_are_looked_at_on_both_sides() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let ours = Authority::new(folder.path(), "ours");
    let theirs = Authority::new(folder.path(), "theirs");
    let controller = credentials(ours.issue("controller", RSA, "2"));
    let stranger = credentials(theirs.issue("stranger", EC, "2"));
    let past = credentials(ours.issue("past", EC, "-1"));

    let (agent, port) = serve(&credentials(ours.issue("switch", EC, "2")));
    assert!(probe(port, &controller, &[]));
    assert!(probe(port, &controller, &["--ssl-protocols=TLSv1.2"]));
    let error = || agent.status().targets.remove(0).last_error.unwrap_or_default();
    let fails = |credentials: &Credentials, why: &str| {
        assert!(!probe(port, credentials, &[]));
        assert!(wait_until(|| error().contains(why), PATIENCE), "{}", error());
    };
    // Signed by another authority; it would accept the switch.
    fails(
        &Credentials { authorities: controller.authorities.clone(), ..stranger },
        "UnknownIssuer",
    );
    fails(&past, "xpired");
    let old = credentials(ours.issue_without_extensions("old", EC));
    fails(&old, "the certificate is of version 1 of X.509");
    let options = AgentOptions {
        targets: vec!["pssl:0:127.0.0.1".parse().expect("a target")],
        credentials: Some(old.clone()),
        ..AgentOptions::default()
    };
    let error_of_ours = Agent::start(switch(), options).expect_err("a certificate of version 1");
    let error_of_ours = error_of_ours.to_string();
    assert!(error_of_ours.contains("old.pem: the certificate is of version 1"), "{error_of_ours}");
    // The controller does not know the authority of the switch.
    fails(&Credentials { authorities: stranger.authorities, ..controller.clone() }, "UnknownCA");
    // A client without TLS.
    let plain = Command::new(require("ovs-ofctl"))
        .args(["--timeout=5", "probe", &format!("tcp:127.0.0.1:{port}")])
        .stderr(Stdio::null())
        .status();
    assert!(!plain.expect("ovs-ofctl runs").success());
    assert!(probe(port, &controller, &[]), "who may come still may");
}

#[test]
#[ignore = "needs openssl"]
fn the_switch_connects_to_whom_it_may() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let ours = Authority::new(folder.path(), "ours");
    let theirs = Authority::new(folder.path(), "theirs");
    let controller = credentials(ours.issue("controller", EC, "2"));
    let impostor = credentials(theirs.issue("controller", EC, "2"));

    // A switch that listens stands for a controller here: hello is the same for both.
    let (right, right_port) = serve(&controller);
    let (wrong, wrong_port) =
        serve(&Credentials { authorities: controller.authorities, ..impostor });
    let target = |port: u16| format!("ssl:127.0.0.1:{port}").parse().expect("a target");
    let options = AgentOptions {
        targets: vec![target(right_port), target(wrong_port)],
        credentials: Some(credentials(ours.issue("switch", RSA, "2"))),
        backoff: (Duration::from_millis(10), Duration::from_millis(50)),
        ..AgentOptions::default()
    };
    let agent = Agent::start(switch(), options).expect("an agent");
    let status = |nth: usize| agent.status().targets.remove(nth);
    assert!(wait_until(|| status(0).connections == 1, PATIENCE));
    let error = || status(1).last_error.unwrap_or_default();
    assert!(wait_until(|| error().contains("UnknownIssuer"), PATIENCE), "{}", error());
    assert_eq!(status(1).connections, 0);
    assert_eq!(right.status().targets[0].connections, 1);
    assert_eq!(wrong.status().targets[0].connections, 0);
}

#[test]
fn unusable_keys_and_certificates_are_named() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("file");
    std::fs::write(&file, "no PEM\n").expect("a file");
    let error = |credentials: Option<Credentials>| {
        let targets = vec!["ssl:127.0.0.1:1".parse().expect("a target")];
        let options = AgentOptions { targets, credentials, ..AgentOptions::default() };
        Agent::start(switch(), options).expect_err("no TLS").to_string()
    };
    assert!(error(None).starts_with("ssl:127.0.0.1:1 needs a private key"));
    let missing = folder.path().join("missing");
    let of = |certificate: &Path| {
        let (key, authorities) = (file.clone(), file.clone());
        error(Some(Credentials { key, certificate: certificate.to_owned(), authorities }))
    };
    assert!(of(&missing).contains("missing: "), "{}", of(&missing));
    assert!(of(&file).contains("file: no certificate in PEM"), "{}", of(&file));
}
