//! What is sent of a directory: the options of `phalanx web` for the default host.

use clap::Args;
use phalanx_web::HostConfig;

use crate::settings::yes_or_no;

/// What is sent.
#[derive(Args, Clone)]
#[command(next_help_heading = "What is sent")]
pub(crate) struct Content {
    /// What stands for a directory, given several times: the first that is there.
    /// [default: index.html]
    #[arg(long = "index", value_name = "NAME", env, value_delimiter = ',')]
    index: Vec<String>,

    /// List directories without an index: as a page, or as JSON for who asks for that.
    #[arg(long, env, value_parser = yes_or_no())]
    listing: bool,

    /// The file that is sent, with 200, to browsers that open a page where there is nothing: for
    /// programs that run in the browser and have paths of their own.
    #[arg(long, value_name = "FILE", env)]
    fallback: Option<String>,

    /// The file that is shown with an error, as in 404=404.html; given several times.
    #[arg(long = "error-page", value_name = "STATUS=FILE", value_parser = error_page, env, value_delimiter = ',')]
    error_pages: Vec<(u16, String)>,

    /// Send file.br, file.zst or file.gz in the place of file to clients that take it, where it is
    /// there and not older.
    #[arg(long, env, value_parser = yes_or_no())]
    precompressed: bool,

    /// Compress text in the cache, once for each file, for clients that take it.
    #[arg(long, env, value_parser = yes_or_no())]
    compress: bool,
}

impl Content {
    /// Sets what was asked for; what was not stays.
    pub(crate) fn apply(&self, host: &mut HostConfig) {
        if !self.index.is_empty() {
            // An empty name is no index at all.
            host.index = self.index.iter().filter(|name| !name.is_empty()).cloned().collect();
        }
        if !self.error_pages.is_empty() {
            host.error_pages.clone_from(&self.error_pages);
        }
        if self.fallback.is_some() {
            host.fallback.clone_from(&self.fallback);
        }
        host.listing |= self.listing;
        host.precompressed |= self.precompressed;
        host.compress |= self.compress;
    }
}

fn error_page(text: &str) -> Result<(u16, String), String> {
    let (status, file) = text.split_once('=').ok_or("a status and a file: 404=404.html")?;
    match status.parse() {
        Ok(code @ 400..=599) if !file.is_empty() => Ok((code, file.to_owned())),
        Ok(400..=599) => Err("no file behind the equals sign".into()),
        _ => Err(format!("{status:?} is no status of an error, which are 400 to 599")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_pages() {
        assert_eq!(error_page("404=a=b.html"), Ok((404, "a=b.html".into())));
        for (text, says) in [
            ("404", "404=404.html"),
            ("200=a", "400 to 599"),
            ("x=a", "\"x\""),
            ("500=", "no file"),
        ] {
            assert!(error_page(text).unwrap_err().contains(says), "{text}");
        }
    }
}
