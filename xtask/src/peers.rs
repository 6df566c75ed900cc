//! `cargo xtask peers`: the independent programs the tests are checked against.
//!
//! The table of programs is in `linerate-test-support`, where tests demand them by name. Packages come
//! from the Debian archive the machine is set up for; nothing else is fetched, and nothing is
//! installed without saying so first.

use std::process::Command;

use anyhow::{Result, bail};
use linerate_test_support::{
    controllers, guest,
    programs::{self, Program},
};

use crate::shell;

/// The Debian package of the kernel that guests run.
const GUEST_KERNEL: &str = "linux-image-cloud-amd64";

/// Arguments of `cargo xtask peers`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask peers            install what is missing (as root, on Debian or Ubuntu)
  cargo xtask peers --list     only say what is there and what is missing")]
pub(crate) struct Args {
    /// Only list the programs and whether they are installed.
    #[arg(long)]
    list: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.list {
        for program in programs::PROGRAMS {
            let state = if program.path().is_some() { "installed" } else { "MISSING" };
            println!(
                "{:<9} {:<8} {:<14} {}",
                state, program.name, program.package, program.purpose
            );
        }
        let state = if guest::kernel().is_some() { "installed" } else { "MISSING" };
        println!("{state:<9} {:<8} {GUEST_KERNEL:<14} the kernel of a guest, only unpacked", "-");
        let state = if controllers::python().is_some() { "installed" } else { "MISSING" };
        let packages = controllers::PACKAGES.join(" ");
        println!(
            "{state:<9} {:<8} {packages:<14} controllers, in an environment of their own",
            "-"
        );
        return Ok(());
    }
    let missing = provide()?;
    if !missing.is_empty() {
        bail!("{}", advice(&missing));
    }
    println!("all {} peer programs are installed", programs::PROGRAMS.len());
    Ok(())
}

/// Installs missing programs where that is possible, and returns those still missing.
pub(crate) fn provide() -> Result<Vec<Program>> {
    let missing = programs::missing();
    let may_install = shell::is_root() && programs::find("apt-get").is_some();
    if !may_install {
        return Ok(missing);
    }
    if !missing.is_empty() {
        install(&packages(&missing))?;
    }
    if guest::kernel().is_none() {
        unpack_kernel()?;
    }
    provide_controllers()?;
    Ok(programs::missing())
}

/// Makes an environment with controllers of others, below the target folder, unless it is there. Nothing
/// of it is installed elsewhere: Debian's package would start a service.
pub(crate) fn provide_controllers() -> Result<()> {
    if controllers::python().is_some() {
        return Ok(());
    }
    let folder = controllers::folder();
    eprintln!("installing {} into {}", controllers::PACKAGES.join(" "), folder.display());
    let python = programs::require_python_with_numpy();
    // A second time, because a package index that is far away fails now and then.
    let make = format!(
        "set -e; mkdir -p '{0}'; cd '{0}'; '{1}' -m venv --clear .; \
         install() {{ bin/python -m pip install --quiet --disable-pip-version-check {2}; }}; \
         install || install; apt-get --quiet download {3}; dpkg-deb --extract {3}_*.deb .; \
         rm {3}_*.deb; bin/python -m pip download --quiet --no-deps --dest old {4}; \
         bin/python -m zipfile -e old/*.whl old; cp old/os_ken/app/simple_switch*.py .; rm -r old; \
         touch complete",
        folder.display(),
        python.display(),
        controllers::PACKAGES.join(" "),
        controllers::DEBIAN_PACKAGE,
        controllers::APPLICATIONS,
    );
    shell::run(Command::new("sh").args(["-c", &make]))
}

/// Downloads the kernel that guests of tests run and unpacks it where they look for it. Installed it
/// would make an initial file system and a boot entry of this machine.
fn unpack_kernel() -> Result<()> {
    let folder = guest::kernel_folder();
    eprintln!("unpacking the Debian package {GUEST_KERNEL} into {}", folder.display());
    shell::run(apt_get().arg("update"))?;
    // The name is of a package that depends on the newest.
    let newest = format!(
        "set -e; mkdir -p {0}; cd {0}; rm -f linux-image-*.deb; \
         name=$(apt-cache depends {GUEST_KERNEL} | grep --only-matching 'linux-image-[0-9].*'); \
         apt-get --quiet download $name; dpkg-deb --extract linux-image-*.deb .; rm linux-image-*.deb",
        folder.display(),
    );
    shell::run(Command::new("sh").args(["-c", &newest]))
}

/// Installs Debian packages without asking and without their recommended companions.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    eprintln!("installing Debian packages: {}", packages.join(" "));
    shell::run(apt_get().arg("update"))?;
    shell::run(apt_get().args(["install", "--yes", "--no-install-recommends"]).args(packages))
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    // tshark asks whether plain users may capture; the answer "no" is its default.
    command.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet");
    command
}

/// Returns the advice for a machine that lacks these programs.
pub(crate) fn advice(missing: &[Program]) -> String {
    let names: Vec<_> = missing.iter().map(|program| program.name).collect();
    format!(
        "missing programs: {}. Tests that need them fail. As root: apt-get install {}",
        names.join(", "),
        packages(missing).join(" ")
    )
}

fn packages(missing: &[Program]) -> Vec<&'static str> {
    let mut packages: Vec<_> = missing.iter().map(|program| program.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_programs_and_packages_once() {
        let missing = [programs::PROGRAMS[0], programs::PROGRAMS[2], programs::PROGRAMS[0]];
        let text = advice(&missing);
        assert!(text.contains("ip, ping, ip"), "{text}");
        assert!(text.ends_with("apt-get install iproute2 iputils-ping"), "{text}");
    }
}
