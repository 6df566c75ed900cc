//! OpenFlow controllers of others, most of them written in Python, in an environment of their own.
//!
//! `cargo xtask peers` makes it; nothing is installed from here.

use std::env;
use std::path::{Path, PathBuf};

/// Packages of the environment, as given to pip.
pub const PACKAGES: [&str; 2] = ["os-ken==4.2.2", "c65faucet==1.0.106"];

/// The package with Open vSwitch's controller, which is only unpacked.
pub const DEBIAN_PACKAGE: &str = "openvswitch-testcontroller";

/// The last version of os-ken that came with Ryu's learning switches, which run with the present one.
pub const APPLICATIONS: &str = "os-ken==1.0.0";

/// Runs an application of os-ken, whose own `osken-manager` is no longer shipped.
pub const MANAGER: &str = include_str!("manager.py");

/// The environment's folder, whether it is there or not.
#[must_use]
pub fn folder() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a workspace");
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root.join(target).join("peers/controllers")
}

/// Its Python, if it is there with all that belongs in it.
#[must_use]
pub fn python() -> Option<PathBuf> {
    let python = folder().join("bin/python");
    (folder().join("complete").exists() && python.exists()).then_some(python)
}

/// Demands the Python that has them.
///
/// # Panics
///
/// When there is none: a test that needs a peer fails without it.
#[track_caller]
#[must_use]
pub fn require_python() -> PathBuf {
    python().unwrap_or_else(|| {
        panic!("this test needs controllers written in Python: run `cargo xtask peers`")
    })
}

/// Demands Open vSwitch's controller.
///
/// # Panics
///
/// As [`require_python`].
#[track_caller]
#[must_use]
pub fn require_test_controller() -> PathBuf {
    let _ = require_python();
    folder().join("usr/bin/ovs-testcontroller")
}
