//! Virtual machine with a network interface by vhost-user: QEMU without KVM, Debian's kernel for
//! clouds, and a root file system in memory that is busybox and a script.
//!
//! It serves files by HTTP: `/file`, random bytes, and `/sum`, their MD5 sum. A post to
//! `/cgi-bin/sum` is answered with its sum, and `/cgi-bin/fetch?HOST` with that of another guest's
//! file.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::{process::wait_until, programs};

/// The folder to which `cargo xtask peers` unpacks the kernel's package.
const KERNEL: &str = "/var/cache/linerate/kernel";
/// Modules of the network interface, in the order in which they need each other.
const MODULES: &[&str] = &[
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci",
    "net/core/failover",
    "drivers/net/net_failover",
    "drivers/net/virtio_net",
];
/// Its message when it serves.
const READY: &str = "GUEST READY";
/// Time that booting may take: it is interpreted, on a machine that does other things.
const BOOT: Duration = Duration::from_secs(120);

/// A folder with `boot` and `lib/modules`, if there is one.
#[must_use]
pub fn kernel() -> Option<PathBuf> {
    image(Path::new(KERNEL)).map(|_| KERNEL.into())
}

/// The folder to unpack it to.
#[must_use]
pub fn kernel_folder() -> &'static Path {
    Path::new(KERNEL)
}

fn image(folder: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(folder.join("boot")).ok()?;
    let mut paths = files.flatten().map(|file| file.path());
    paths
        .find(|path| path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"vmlinuz")))
}

/// Setup of a guest.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// Prefix of the names of its files.
    pub name: &'a str,
    /// The device's socket, to which it connects again and again.
    pub socket: &'a Path,
    /// The last byte of its hardware address, which begins with 52:54:00:00:00.
    pub mac: u8,
    /// Its address with the prefix's length, `10.0.0.2/24`.
    pub address: &'a str,
    /// Megabytes of `/file`.
    pub megabytes: usize,
    /// Options of QEMU's `virtio-net-pci`, each with a comma in front of it.
    pub options: &'a str,
    /// A folder for its files.
    pub folder: &'a Path,
}

/// A running guest. It is killed when this is dropped.
#[derive(Debug)]
pub struct Guest {
    child: Child,
    console: PathBuf,
    errors: PathBuf,
}

impl Guest {
    /// Starts one and waits until it serves.
    ///
    /// # Panics
    ///
    /// When QEMU, busybox or the kernel is not there, or it does not come up.
    #[track_caller]
    pub fn start(setup: &Setup<'_>) -> Guest {
        let qemu = programs::require("qemu-system-x86_64");
        let busybox = programs::require("busybox");
        let Some(kernel) = kernel() else {
            panic!("this test needs the kernel of a guest in {KERNEL}: run `cargo xtask peers`");
        };
        let image = image(&kernel).expect("it was found");
        let archive = setup.folder.join(format!("{}.initrd", setup.name));
        fs::write(&archive, file_system(setup, &kernel, &busybox)).expect("the file system");
        let console = setup.folder.join(format!("{}.console", setup.name));
        let errors = setup.folder.join(format!("{}.errors", setup.name));
        // Of a guest before it.
        let _ = fs::remove_file(&console);
        let memory = 96 + 2 * setup.megabytes;
        let child = Command::new(qemu)
            .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"])
            .args(["-m", &memory.to_string(), "-machine", "pc,memory-backend=memory"])
            .arg("-object")
            .arg(format!("memory-backend-memfd,id=memory,size={memory}M,share=on"))
            .arg("-chardev")
            .arg(format!("socket,id=device,path={},reconnect=1", setup.socket.display()))
            .args(["-netdev", "vhost-user,id=net,chardev=device", "-device"])
            // Debian 12's QEMU (7.2.22) dies by a null pointer when a guest chooses a vector of a
            // vhost device and there is no KVM, so there are none: it has the line's interrupt.
            .arg(format!(
                "virtio-net-pci,netdev=net,romfile=,vectors=0,mac=52:54:00:00:00:{:02x}{}",
                setup.mac, setup.options,
            ))
            .arg("-serial")
            .arg(format!("file:{}", console.display()))
            .arg("-kernel")
            .arg(image)
            .arg("-initrd")
            .arg(archive)
            .args(["-append", "console=ttyS0 quiet panic=-1"])
            .stdin(Stdio::null())
            .stderr(fs::File::create(&errors).expect("a file for what QEMU complains of"))
            .spawn()
            .expect("QEMU runs");
        let mut guest = Guest { child, console, errors };
        let is_up = wait_until(|| guest.has_said(READY) || !guest.is_running(), BOOT);
        assert!(is_up && guest.is_running(), "the guest does not come up: {}", guest.console());
        guest
    }

    /// Returns true if QEMU runs still.
    ///
    /// # Panics
    ///
    /// When the kernel does not tell.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child of ours").is_none()
    }

    /// The errors of QEMU and the text of the guest's console, so far.
    #[must_use]
    pub fn console(&self) -> String {
        let read =
            |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        read(&self.errors) + &read(&self.console)
    }

    fn has_said(&self, text: &str) -> bool {
        self.console().contains(text)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The root file system, as an archive.
fn file_system(setup: &Setup<'_>, kernel: &Path, busybox: &Path) -> Vec<u8> {
    let mut archive = Archive::default();
    for folder in ["bin", "lib", "dev", "proc", "sys", "www", "www/cgi-bin"] {
        archive.add(folder, 0o040_755, &[]);
    }
    let busybox = fs::read(busybox).expect("busybox");
    let is_dynamic = busybox.windows(10).any(|bytes| bytes == b"/ld-linux-");
    assert!(!is_dynamic, "busybox needs libraries: install Debian's busybox-static in its place");
    archive.add("bin/busybox", 0o100_755, &busybox);
    let modules = fs::read_dir(kernel.join("lib/modules")).expect("the kernel's modules");
    let modules = modules.flatten().next().expect("the modules of one kernel").path();
    let mut script = String::from(
        "#!/bin/busybox sh\n\
         :\n\
         b mount -t proc proc /proc\nb mount -t sysfs sys /sys\nb mount -t devtmpfs dev /dev\n\
         exec </dev/console >/dev/console 2>&1\n",
    );
    for module in MODULES {
        let file = modules.join("kernel").join(module).with_extension("ko");
        let name = format!("lib/{}.ko", module.rsplit('/').next().unwrap_or(module));
        archive.add(&name, 0o100_644, &fs::read(file).expect("a module of the kernel"));
        script += &format!("b insmod /{name}\n");
    }
    script += &format!(
        "b ip link set lo up\nb ip address add {} dev eth0\nb ip link set eth0 up\n\
         b dd if=/dev/urandom of=/www/file bs=1M count={} 2>/dev/null\n\
         b md5sum < /www/file > /www/sum\n\
         b httpd -p 80 -h /www\n\
         echo {READY}\n\
         while /bin/busybox sleep 1000; do :; done\n",
        setup.address, setup.megabytes,
    );
    archive.add("init", 0o100_755, script.replace("\nb ", "\n/bin/busybox ").as_bytes());
    let mut program = |name: &str, what: &str| {
        let text = format!("#!/bin/busybox sh\nprintf '\\r\\n'\n{what} /bin/busybox md5sum\n");
        archive.add(&format!("www/cgi-bin/{name}"), 0o100_755, text.as_bytes());
    };
    program("sum", "exec");
    program("fetch", "/bin/busybox wget -q -O - http://$QUERY_STRING/file |");
    archive.end()
}

/// A cpio archive in the format that the kernel unpacks
/// (`Documentation/driver-api/early-userspace/buffer-format.rst`).
#[derive(Default)]
struct Archive(Vec<u8>);

impl Archive {
    fn add(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.0.extend(b"070701");
        let number = self.0.len();
        let fields = [
            number as u32, // any, as long as no two are the same
            mode,
            0,
            0,
            1,
            0,
            content.len() as u32,
            0,
            0,
            0,
            0,
            name.len() as u32 + 1,
            0,
        ];
        for field in fields {
            self.0.extend(format!("{field:08x}").as_bytes());
        }
        self.0.extend(name.as_bytes());
        self.0.push(0);
        self.pad();
        self.0.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn end(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, &[]);
        self.0
    }
}
