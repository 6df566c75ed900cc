//! `linerate completions` and `linerate man`: both made from the command line
//! definition itself, so that they cannot differ from it.

use std::fs;

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::{
    args::{Cli, Completions, Man},
    output,
};

pub(crate) fn completions(args: &Completions) -> Result<()> {
    // It would panic where whoever reads has gone.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "linerate", &mut script);
    Ok(output::data(&String::from_utf8(script)?)?)
}

pub(crate) fn man(args: &Man) -> Result<()> {
    let mut command = Cli::command();
    command.build();
    let write = |name: String, page: clap_mangen::Man| -> Result<()> {
        let path = args.folder.join(format!("{name}.1"));
        let mut text = Vec::new();
        page.render(&mut text)?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write("linerate".into(), clap_mangen::Man::new(command.clone()))?;
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let name = format!("linerate-{}", sub.get_name());
        let page = clap_mangen::Man::new(sub.clone().display_name(&name));
        write(name, page)?;
    }
    Ok(())
}
