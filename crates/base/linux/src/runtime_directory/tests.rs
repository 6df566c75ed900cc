use std::{
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    time::Duration,
};

use super::*;

fn own() -> Uid {
    rustix::process::geteuid()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// The place of a private directory in a folder of the test's own.
fn location(folder: &Path) -> Location {
    set_mode(folder, 0o700);
    Location { path: folder.join(NAME), owner: own(), mode: 0o700 }
}

fn refusal(location: &Location) -> String {
    let error = location.create().unwrap_err().to_string();
    assert_eq!(location.open().unwrap_err().to_string(), error);
    error
}

#[test]
fn accounts_have_directories_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    set_mode(folder.path(), 0o700);
    let someone = Uid::from_raw(4711);
    let place = |owner, runtime: Option<&Path>| {
        Location::for_account(owner, runtime.map(Path::as_os_str)).path
    };
    assert_eq!(place(Uid::ROOT, Some(folder.path())), Path::new("/run/linerate"));
    assert_eq!(place(someone, None), Path::new("/tmp/linerate-4711"));
    for unusable in ["", "relative", "/nonexistent/linerate"] {
        let path = place(someone, Some(Path::new(unusable)));
        assert_eq!(path, Path::new("/tmp/linerate-4711"), "{unusable}");
    }
    // Another account's directory, as `su` leaves the variable.
    assert_eq!(place(someone, Some(folder.path())), Path::new("/tmp/linerate-4711"));
    if !own().is_root() {
        assert_eq!(place(own(), Some(folder.path())), folder.path().join("linerate"));
        set_mode(folder.path(), 0o777);
        assert!(place(own(), Some(folder.path())).starts_with("/tmp"));
    }
}

#[test]
fn it_is_made_once_and_private() {
    let folder = tempfile::tempdir().unwrap();
    let location = location(folder.path());
    assert_eq!(location.open().unwrap(), None);
    let made = location.create().unwrap();
    assert_eq!(fs::metadata(made.path()).unwrap().mode() & 0o7777, 0o700);
    assert_eq!(location.create().unwrap(), made);
    assert_eq!(location.open().unwrap(), Some(made));
    let open = Location { path: folder.path().join("root"), mode: 0o755, ..location };
    assert_eq!(fs::metadata(open.create().unwrap().path()).unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn a_symbolic_link_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let location = location(folder.path());
    let target = folder.path().join("target");
    fs::create_dir(&target).unwrap();
    set_mode(&target, 0o700);
    symlink(&target, &location.path).unwrap();
    let error = refusal(&location);
    assert!(error.contains("it is not a directory; have ") && error.contains("removed"), "{error}");
    fs::remove_file(&location.path).unwrap();
    fs::write(&location.path, "").unwrap();
    assert!(refusal(&location).contains("it is not a directory"));
}

#[test]
fn a_directory_of_others_or_for_others_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let location = location(folder.path());
    location.create().unwrap();
    let theirs = Location { owner: Uid::from_raw(own().as_raw() + 1), ..location.clone() };
    let error = refusal(&theirs);
    assert!(error.contains(&format!("it belongs to uid {}", own().as_raw())), "{error}");
    set_mode(&location.path, 0o750);
    let error = refusal(&location);
    assert!(error.contains("its mode is 0750; chmod 700 "), "{error}");
    set_mode(&location.path, 0o755);
    let of_root = Location { mode: 0o755, ..location.clone() };
    of_root.open().unwrap().unwrap();
    set_mode(&location.path, 0o775);
    assert!(refusal(&of_root).contains("its mode is 0775; chmod 755 "));
    set_mode(&location.path, 0o700);
    set_mode(folder.path(), 0o777);
    assert!(refusal(&location).contains("other accounts can rename"), "{}", refusal(&location));
    set_mode(folder.path(), 0o1777);
    location.open().unwrap().unwrap();
}

#[test]
fn a_name_has_one_claim_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let directory = location(folder.path()).create().unwrap();
    let claim = directory.claim("router").unwrap().unwrap();
    assert!(directory.claim("router").unwrap().is_none());
    let other = directory.claim("router-7").unwrap().unwrap();
    assert_eq!(directory.names(".lock").unwrap(), ["router", "router-7"]);
    drop((claim, other));
    assert_eq!(directory.names(".lock").unwrap(), [""; 0]);
    let again = directory.claim("router").unwrap().unwrap();
    // The file that a killed process has left can be claimed.
    drop(again);
    fs::write(directory.path().join("router.lock"), "").unwrap();
    assert!(directory.claim("router").unwrap().is_some());
}

#[test]
fn a_lock_that_is_kept_is_waited_for_in_bounded_time() {
    let folder = tempfile::tempdir().unwrap();
    let directory = location(folder.path()).create().unwrap();
    let claim = directory.claim("router").unwrap().unwrap();
    let kept = directory.lock().unwrap();
    let error = directory.lock_within(Duration::from_millis(1)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(error.to_string().contains(".lock locked"), "{error}");
    drop(claim);
    drop(kept);
    // The file has stayed, unlocked.
    assert!(directory.claim("router").unwrap().is_some());
}

#[test]
fn names_stay_in_the_directory() {
    for name in ["router", "a-b_c.d", "7up", "_x", &"n".repeat(64)] {
        assert!(RuntimeDirectory::is_name(name), "{name}");
    }
    let folder = tempfile::tempdir().unwrap();
    let directory = location(folder.path()).create().unwrap();
    for name in ["", ".", "..", ".lock", "-x", "a/b", "../x", "a b", "ä", &"n".repeat(65)] {
        assert!(!RuntimeDirectory::is_name(name), "{name}");
        assert!(directory.claim(name).is_err(), "{name}");
    }
}
