use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
};

use super::*;

/// A directory that stands in for the runtime directory.
fn directory() -> (tempfile::TempDir, RuntimeDirectory) {
    let folder = tempfile::tempdir().unwrap();
    let directory = RuntimeDirectory::at(&folder.path().join("linerate")).unwrap();
    (folder, directory)
}

fn entries(directory: &RuntimeDirectory) -> Vec<String> {
    let names = fs::read_dir(directory.path()).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != ".lock");
    names.sort_unstable();
    names
}

fn given(address: &str) -> ControlSocket {
    let controlled = Controlled {
        control: Vec::new(),
        token_file: Some("/run/token".into()),
        control_mode: Some(0o660),
    };
    controlled.socket(&address.parse().unwrap(), "x", &mut Vec::new()).unwrap()
}

#[test]
fn elements_are_told_address_mode_and_token() {
    for (address, config) in [
        ("7777", "TCP, 7777, ADDRESS 127.0.0.1"),
        ("7777+", "TCP, 7777+, ADDRESS 127.0.0.1"),
        ("[::1]:7", "TCP, 7, ADDRESS ::1"),
        ("0.0.0.0:7777", "TCP, 7777, ADDRESS 0.0.0.0"),
        ("/run/a.sock", "UNIX, \"/run/a.sock\", MODE 0660"),
        ("./a, b", "UNIX, \"./a, b\", MODE 0660"),
    ] {
        assert_eq!(given(address).config(), format!("{config}, TOKEN \"file:/run/token\""));
    }
}

#[test]
fn a_taken_name_gets_the_number_of_the_process() {
    let (_folder, directory) = directory();
    let (first, _claim) = claim(&directory, "router").unwrap();
    let (second, kept) = claim(&directory, "router").unwrap();
    let (third, _also) = claim(&directory, "router").unwrap();
    let process = process::id();
    assert_eq!(first, "router");
    assert_eq!((second, third), (format!("router-{process}"), format!("router-{process}-2")));
    drop(kept);
    assert_eq!(claim(&directory, "router").unwrap().0, format!("router-{process}"));
}

#[test]
fn a_made_token_is_private_and_found_by_the_port_alone() {
    let (_folder, directory) = directory();
    let mut made = MadeToken::new(&directory).unwrap();
    let text = fs::read_to_string(made.path()).unwrap();
    assert_eq!(text.trim().len(), 64);
    assert!(text.trim().bytes().all(|digit| digit.is_ascii_hexdigit()));
    assert_eq!(fs::metadata(made.path()).unwrap().mode() & 0o7777, 0o600);
    let link = directory.path().join("control-7777.token");
    assert!(!link.exists());
    made.publish(7777).unwrap();
    assert_eq!(fs::read_to_string(&link).unwrap(), text);
    assert_eq!(made.link(), Some(&*link));
    let other = MadeToken::new(&directory).unwrap();
    assert_ne!(fs::read_to_string(other.path()).unwrap(), text);
    drop((made, other));
    assert_eq!(entries(&directory), [""; 0]);
}

/// With the same port in two network namespaces, clients find the later token, and the first process does not
/// remove it.
#[test]
fn a_token_of_another_process_is_not_removed() {
    let (_folder, directory) = directory();
    let (mut first, mut second) =
        (MadeToken::new(&directory).unwrap(), MadeToken::new(&directory).unwrap());
    first.publish(7).unwrap();
    second.publish(7).unwrap();
    let link = directory.path().join("control-7.token");
    let text = fs::read_to_string(second.path()).unwrap();
    assert_eq!(fs::read_to_string(&link).unwrap(), text);
    drop(first);
    assert_eq!(fs::read_to_string(&link).unwrap(), text);
    drop(second);
    assert_eq!(entries(&directory), [""; 0]);
}

#[test]
fn tokens_of_killed_processes_are_removed() {
    let (_folder, directory) = directory();
    let [own, link] =
        ["control-1-0.token", "control-80.token"].map(|name| directory.path().join(name));
    fs::write(&own, "old").unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o600)).unwrap();
    fs::hard_link(&own, &link).unwrap();
    let mut made = MadeToken::new(&directory).unwrap();
    assert!(!own.exists() && !link.exists());
    made.publish(80).unwrap();
    // One that runs has two names.
    token::remove_stale_link(&directory, 80).unwrap();
    assert!(link.exists());
}
