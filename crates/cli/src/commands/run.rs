//! `linerate run`: a configuration, with the cycles of its workers by use.

use anyhow::Result;
use linerate_graph::Library;

use crate::{
    args::Run,
    run::{self, Subject},
};

pub(crate) fn run(args: &Run, library: &Library) -> Result<()> {
    let subject = Subject::from_configuration(&args.configuration, library, args.watch)?;
    let sockets = args.operation.controlled.sockets(&subject.source.instance("run"))?;
    run::run(subject, sockets, &args.operation)
}
