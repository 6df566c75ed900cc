//! `linerate run`: a configuration, with where its cycles go.

use anyhow::Result;
use linerate_graph::Library;

use crate::{
    args::Run,
    run::{self, Subject},
};

pub(crate) fn run(args: &Run, library: &Library) -> Result<()> {
    let (source, globals) = args.configuration.source()?;
    let subject = Subject {
        source,
        globals,
        devices: args.configuration.devices(),
        library: library.clone(),
        texts: &[],
        watch: args.watch,
        socket: None,
    };
    run::run(subject, &args.operation)
}
