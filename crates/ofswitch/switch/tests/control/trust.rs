//! Peers of another user: those the switch accepts and connects to without TLS.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use linerate_ofswitch::control::{Agent, AgentOptions, Client, ClientOptions, Target, Trust};
use linerate_openflow::wire::{Hello, Message, Version};
use linerate_test_support::hostile::AttackUser;
use linerate_test_support::wait_until;

use crate::controller::{Controller, PATIENCE, switch};

const VERSION: Version = Version::V13;

/// User ID of Debian's `nobody`.
const NOBODY: u32 = 65534;

/// Runs a function as user `nobody`, in a thread that has that user for good.
fn as_nobody<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            AttackUser::Nobody.assume().expect("root may become nobody");
            act()
        });
        thread.join().expect("nobody")
    })
}

fn agent(targets: Vec<Target>, trust: Trust) -> Agent {
    let backoff = (Duration::from_millis(10), Duration::from_millis(50));
    let options = AgentOptions { targets, trust, backoff, ..AgentOptions::default() };
    Agent::start(switch(), options).expect("an agent")
}

fn named() -> Trust {
    Trust { users: vec![NOBODY], any_peer: false }
}

fn any_peer() -> Trust {
    Trust { users: Vec::new(), any_peer: true }
}

/// Returns true if the switch answers a hello.
fn is_served(mut stream: impl Read + Write) -> bool {
    let hello =
        Message::Hello(Hello::from_versions(&[VERSION])).encode(VERSION, 0).expect("a hello");
    let _refused = stream.write_all(&hello);
    stream.read(&mut [0; 8]).is_ok_and(|count| count > 0)
}

#[test]
#[ignore = "needs root"]
fn a_listener_takes_users_that_may_control_the_switch() {
    for (trust, serves) in [(Trust::default(), false), (named(), true), (any_peer(), true)] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        let path = folder.path().join("switch");
        let targets =
            vec!["ptcp:0:127.0.0.1".parse().expect("a target"), Target::ListenUnix(path.clone())];
        let agent = agent(targets, trust);
        // An administrator may let others find it: that alone gives no rights.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("a mode");
        let Target::Listen { address, .. } = agent.status().targets[0].target else {
            panic!("it listens");
        };
        let (tcp, unix) = as_nobody(|| {
            let tcp = TcpStream::connect(address).expect("it listens");
            let unix = UnixStream::connect(&path).expect("it listens");
            (is_served(tcp), is_served(unix))
        });
        assert_eq!((tcp, unix), (serves, serves));
        let refused: Vec<u64> =
            agent.status().targets.iter().map(|target| target.rejected).collect();
        assert_eq!(refused, if serves { [0, 0] } else { [1, 1] });
        Controller::at(&path, VERSION).barrier();
        let tcp = TcpStream::connect(address).expect("it listens");
        Controller::over(Box::new(tcp), VERSION).barrier();
    }
}

#[test]
#[ignore = "needs root"]
fn a_service_of_another_user_does_not_control_the_switch() {
    let listener: TcpListener = as_nobody(|| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let address: SocketAddr = listener.local_addr().expect("an address");
    let folder = tempfile::tempdir().expect("a temporary directory");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("a mode");
    let path = folder.path().join("controller");
    let socket = as_nobody(|| UnixListener::bind(&path).expect("a socket"));
    let target = || format!("tcp:{address}").parse().expect("a target");
    let status = |agent: &Agent, nth: usize| agent.status().targets.remove(nth);

    let strange = agent(vec![target(), Target::ConnectUnix(path.clone())], Trust::default());
    // It sends a hello, and is ended; over UNIX nothing is sent to it.
    let said = as_nobody(|| {
        let (mut stream, _) = listener.accept().expect("the switch connects");
        let hello =
            Message::Hello(Hello::from_versions(&[VERSION])).encode(VERSION, 0).expect("a hello");
        stream.write_all(&hello).expect("room");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        let _reset = stream.read_to_end(&mut Vec::new());
        let mut said = Vec::new();
        let (mut stream, _) = socket.accept().expect("the switch connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        let _reset = stream.read_to_end(&mut said);
        said
    });
    assert!(said.is_empty(), "{said:?}");
    for nth in 0..2 {
        let error = || status(&strange, nth).last_error.unwrap_or_default();
        assert!(wait_until(|| error().contains("of user 65534"), PATIENCE), "{}", error());
        assert_eq!(status(&strange, nth).connections, 0);
    }
    drop(strange);

    let trusting = agent(vec![target()], named());
    as_nobody(|| {
        // Those of before may be in the queue.
        let mut controllers = Vec::new();
        let connected = || {
            let (mut stream, _) = listener.accept().expect("the switch connects");
            let hello = Message::Hello(Hello::from_versions(&[VERSION]))
                .encode(VERSION, 0)
                .expect("a hello");
            let _gone = stream.write_all(&hello);
            controllers.push(stream);
            wait_until(|| status(&trusting, 0).connections == 1, Duration::from_millis(500))
        };
        assert!(wait_until(connected, PATIENCE));
    });
}

#[test]
#[ignore = "needs root"]
fn a_client_says_nothing_to_a_switch_of_another_user() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("a mode");
    let path = folder.path().join("switch");
    let socket = as_nobody(|| UnixListener::bind(&path).expect("a socket"));
    let options = ClientOptions { trust: Some(Trust::default()), ..ClientOptions::default() };
    let error = Client::connect(&Target::ConnectUnix(path), &options).expect_err("a stranger");
    assert!(error.to_string().contains("user 65534"), "{error}");
    let mut said = Vec::new();
    let (mut stream, _) = socket.accept().expect("it connected");
    let _reset = stream.read_to_end(&mut said);
    assert!(said.is_empty(), "{said:?}");
}
