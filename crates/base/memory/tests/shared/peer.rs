//! Rights of the process that has connected.

use std::{
    env, fs,
    io::{Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    process::{Command, Stdio},
};

use linerate_memory::shared::PeerRights;

const SOCKET: &str = "LINERATE_TEST_SOCKET";

/// Rights are those of the process that connected, not of one that has its socket now.
#[test]
fn a_process_that_has_ended_has_no_rights() {
    let folder = env::temp_dir().join(format!("linerate-peer-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let path = folder.join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let mut process = Command::new(env::current_exe().unwrap())
        .args(["--exact", "peer::connecting_process", "--test-threads=1"])
        .env(SOCKET, &path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (mut socket, _) = listener.accept().unwrap();
    fs::remove_dir_all(&folder).unwrap();
    assert!(PeerRights::from_socket(socket.as_fd()).can_write());
    socket.write_all(&[1]).unwrap();
    assert!(process.wait().unwrap().success());
    assert!(!PeerRights::from_socket(socket.as_fd()).can_write());
    // Its child has it open.
    assert_eq!(socket.write(&[1]).unwrap(), 1);
}

/// Connects, and leaves its socket to a child. Run by the test above.
#[test]
#[expect(clippy::zombie_processes, reason = "the child outlives this process")]
fn connecting_process() {
    let Some(path) = env::var_os(SOCKET) else { return };
    let mut socket = UnixStream::connect(path).unwrap();
    socket.read_exact(&mut [0]).unwrap();
    let socket = OwnedFd::from(socket);
    // It ends when the other end is closed.
    Command::new("cat").stdin(Stdio::from(socket)).stdout(Stdio::null()).spawn().unwrap();
}
