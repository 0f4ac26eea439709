//! Arguments of the attributes.

use proc_macro2::TokenStream;
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::{Error, Expr, LitInt, Path, Result};

/// The arguments of one attribute.
#[derive(Default)]
pub(crate) struct Options {
    /// Number of processors.
    pub(crate) processors: Option<LitInt>,
    /// A function that declares the graph's stages and returns their handles.
    pub(crate) stages: Option<Path>,
    /// An expression for the configured runtime.
    pub(crate) runtime: Option<Expr>,
    /// Simulate with this seed.
    pub(crate) seed: Option<LitInt>,
    /// Simulate with this number of seeds.
    pub(crate) seeds: Option<LitInt>,
}

impl Options {
    /// Parses the arguments of `#[phalanx::main]`.
    pub(crate) fn of_main(arguments: TokenStream) -> Result<Self> {
        Self::parse(arguments, &["processors", "stages", "runtime"])
    }

    /// Parses the arguments of `#[phalanx::test]`.
    pub(crate) fn of_test(arguments: TokenStream) -> Result<Self> {
        Self::parse(arguments, &["processors", "stages", "seed", "seeds"])
    }

    fn parse(arguments: TokenStream, allowed: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let parser = syn::meta::parser(|meta| {
            let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
            if !allowed.contains(&&*name) {
                let known = allowed.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
                return Err(meta.error(format!("unknown option; known are {}", known.join(", "))));
            }
            let value = meta.value()?;
            let option = match &*name {
                "processors" => options.processors.replace(positive(value.parse()?)?).is_some(),
                "stages" => options.stages.replace(value.parse()?).is_some(),
                "runtime" => options.runtime.replace(value.parse()?).is_some(),
                "seed" => options.seed.replace(number(value.parse()?)?).is_some(),
                _ => options.seeds.replace(positive(value.parse()?)?).is_some(),
            };
            match option {
                true => Err(meta.error(format!("`{name}` is given twice"))),
                false => Ok(()),
            }
        });
        parser.parse2(arguments)?;
        if let (Some(runtime), Some(_)) = (&options.runtime, &options.processors) {
            return Err(Error::new(
                runtime.span(),
                "`runtime` and `processors` exclude each other; use `Runtime::processors` in the expression",
            ));
        }
        if let (Some(seed), Some(_)) = (&options.seed, &options.seeds) {
            return Err(Error::new(seed.span(), "`seed` and `seeds` exclude each other"));
        }
        Ok(options)
    }
}

fn number(literal: LitInt) -> Result<LitInt> {
    literal.base10_parse::<u64>()?;
    Ok(literal)
}

fn positive(literal: LitInt) -> Result<LitInt> {
    match literal.base10_parse::<u32>()? {
        0 => Err(Error::new(literal.span(), "at least 1")),
        _ => Ok(literal),
    }
}
