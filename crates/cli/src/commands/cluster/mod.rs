//! `linerate cluster`: packets shared with other processes.

mod attach;
mod serve;
mod status;

use anyhow::Result;
use linerate_client::Connection;
use linerate_graph::Library;

pub(super) use status::table;

use crate::{
    args::{Cluster, ClusterCommand},
    output,
};

pub(crate) fn run(args: &Cluster, library: &Library) -> Result<()> {
    match &args.command {
        ClusterCommand::Serve(args) => serve::run(args, library),
        ClusterCommand::Status(args) => status::status(args),
        ClusterCommand::Top(args) => status::top(args),
        ClusterCommand::Attach(args) => attach::run(args),
        ClusterCommand::Balance(args) => status::balance(args),
        ClusterCommand::Weights(args) => {
            let connection = Connection::open(&args.address)?;
            let moved = connection.weigh(&args.balancer, &args.weights)?;
            Ok(output::data(&format!("{moved} of 1024 buckets of flows have moved\n"))?)
        }
        ClusterCommand::Detach(args) => Ok(Connection::open(&args.address)?.detach(&args.name)?),
    }
}
