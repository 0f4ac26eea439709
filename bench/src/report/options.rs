//! The command line of `phalanx-bench report`.

use std::path::PathBuf;

use clap::Args;

/// Run the experiments and write a page: results of the papers, results of this machine, and where they fall
/// short.
///
/// `report.html` is self-contained; `report.md` is the same page as Markdown, without the folded figures; `report.json`
/// contains every figure, the machine and the commands; `plots/` contains each plot as SVG, light and dark. A fixed loop
/// is timed around each experiment, and experiments on a disturbed machine are marked. Ctrl-C writes the results so far.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Output folder; created if missing
    #[arg(long, value_name = "DIR", default_value = "report")]
    pub(crate) out: PathBuf,

    /// Short run of a few minutes with rough figures (default)
    #[arg(long)]
    pub(crate) quick: bool,

    /// Full run of at most 95 minutes on an idle machine; disturbed experiments are repeated
    #[arg(long, conflicts_with = "quick")]
    pub(crate) full: bool,

    /// Only these experiments
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', num_args = 1..)]
    pub(crate) only: Vec<String>,

    /// Measure nothing; draw page and plots of this `report.json` again
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "full", "only"])]
    pub(crate) draw: Option<PathBuf>,

    /// An earlier `report.json`: report the ratios that changed by more than the noise
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,

    /// Replace the text between `<!-- report: begin -->` and `<!-- report: end -->` in this Markdown file by the
    /// report's ratios and tables
    #[arg(long, value_name = "FILE")]
    pub(crate) page: Option<PathBuf>,
}
