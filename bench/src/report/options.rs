//! The command line of `phalanx bench report`.

use std::path::PathBuf;

use clap::Args;

/// Run the experiments, and write a page of them: what the papers showed, what this machine shows, and
/// where it falls short.
///
/// `report.html` needs nothing beside itself; `report.json` has every figure, the machine and the
/// commands; `plots/` has each plot as SVG, light and dark. A loop is timed beside each experiment: one in
/// a bad phase of the machine is marked. Ctrl-C writes what was measured until then.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Where to write; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "report")]
    pub out: PathBuf,

    /// A few minutes, and rough figures; the default
    #[arg(long)]
    pub quick: bool,

    /// Up to an hour; what a bad phase disturbs is repeated
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,

    /// Only these experiments
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', num_args = 1..)]
    pub only: Vec<String>,

    /// Measure nothing, and draw this `report.json` again: page and plots
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "full", "only"])]
    pub draw: Option<PathBuf>,

    /// An earlier `report.json`: says which ratios have moved since, beyond the noise
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
}
