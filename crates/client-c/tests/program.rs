//! A program in C, compiled as a user would, gets packets of a server in this process.
#![allow(missing_docs, reason = "a test program")]

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use linerate_cluster::{Access, BalancerUse, Broker, Granted};
use linerate_memory::{ArenaOptions, Frame};

/// All other functions than those the example uses, and what they return when they should not work.
const OTHERS: &str = r#"
#include <linerate_client.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	char error[12];
	lr_packet packets[LR_BURST];
	uint8_t chosen[LR_BURST] = {0};
	lr_figures figures;
	if (argc != 3 || lr_attach(argv[1], "nobody", error, sizeof error) || strlen(error) != 11)
		return 10;
	lr_consumer *consumer = lr_attach(argv[1], argv[2], NULL, 0);
	if (!consumer)
		return 11;
	int received;
	while ((received = lr_receive(consumer, packets)) == 0) {
		struct pollfd waited = {lr_fd(consumer), POLLIN, 0};
		if (lr_prepare_wait(consumer) && poll(&waited, 1, 10000) != 1)
			return 12;
	}
	if (received != 3 || packets[2].length != 60 || packets[2].data[0] != 2)
		return 13;
	uint8_t *first = lr_writable(consumer, 0);
	if (!first || lr_writable(consumer, 3))
		return 14;
	first[0] = 77;
	chosen[0] = chosen[2] = 1;
	if (lr_send(consumer, chosen) != 2 || lr_transmit(consumer, "x", 1) != 0)
		return 15;
	if (lr_wait(consumer, 0) != 0 || lr_receive(consumer, packets) != 0)
		return 16;
	do
		lr_read_figures(consumer, &figures);
	while (figures.sent != 2);
	if (figures.packets != 3 || figures.bytes != 180)
		return 17;
	lr_detach(consumer);
	lr_detach(NULL);
	printf("done\n");
	return 0;
}
"#;

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compiles a program against the shared library that this test was built with.
fn compiled(source: &Path, folder: &Path) -> Command {
    let libraries = env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let program: PathBuf = folder.join(source.file_stem().unwrap());
    let mut compile = Command::new("cc");
    compile.args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", "-o"]);
    compile.arg(&program).arg(source).arg("-I").arg(package().join("include"));
    compile.arg("-L").arg(&libraries).arg("-llinerate_client_c");
    let done = compile.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut run = Command::new(program);
    run.env("LD_LIBRARY_PATH", libraries);
    run
}

#[test]
fn programs_in_c_get_packets() {
    let folder = tempfile::tempdir().unwrap();
    let others = folder.path().join("others.c");
    std::fs::write(&others, OTHERS).unwrap();
    let example = package().join("examples/flows.c");
    let arena =
        ArenaOptions { size: 1 << 20, huge: false, ..ArenaOptions::default() }.create().unwrap();
    for (source, ends) in [(&example, true), (&others, false)] {
        let address = format!("@linerate-c-{}", std::process::id());
        let broker = Broker::open(&address, &arena).unwrap();
        let granted = Granted { access: Access::Write, cells: 64 };
        let consumers = [("one".to_string(), 1)];
        let balancer = BalancerUse::new(&broker, "b", &consumers, granted, true).unwrap();
        let mut program = compiled(source, folder.path());
        program.args([&address, "one"]).stdout(Stdio::piped());
        let program = program.spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while !broker.exchange().is_attached("one") {
            assert!(Instant::now() < until, "it does not attach");
            thread::sleep(Duration::from_millis(1));
        }
        let mut pool = arena.cache(8);
        let (mut frame, mut absent) = (Frame::new(8), Frame::new(8));
        pool.take(&mut frame, 3, 60);
        for (at, slot) in frame.slots_mut().iter_mut().enumerate() {
            let bytes = arena.packet_mut(slot).unwrap();
            bytes.fill(17);
            bytes[0] = at as u8;
        }
        let ids = [balancer.balancer()];
        broker.exchange().share_out(&ids, &[0; 3], false, &mut pool, &mut frame, &mut absent);
        assert!(frame.is_empty() && absent.is_empty());
        if ends {
            while balancer.places()[0].figures().waiting > 0 {
                thread::sleep(Duration::from_millis(1));
            }
            drop((balancer, broker));
        }
        let output = program.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{source:?}: {:?}, {said}", output.status);
        let expected = if ends {
            "the server has ended this consumer: the server has ended, or has no such consumer any \
             more\nprotocol 17: 3 packets\nlost: 0\n"
        } else {
            "done\n"
        };
        assert_eq!(said, expected);
    }
    assert_eq!(arena.accounting().held, 0);
}
