//! The attributes `#[phalanx::main]` and `#[phalanx::test]`, and `#[derive(Handles)]`. Use them through the crate
//! `phalanx`, which documents them.
//!
//! | file | contents |
//! |---|---|
//! | `options` | parsing the arguments of an attribute |
//! | `expand` | checking the function and generating the code |
//! | `handles` | the derive macro |

#![forbid(unsafe_code)]

mod expand;
mod handles;
mod options;

use proc_macro::TokenStream;

/// Runs an `async fn main` on a runtime: see `phalanx::main`.
#[proc_macro_attribute]
pub fn main(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::main(arguments.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Runs an `async` test on a runtime or in the simulator: see `phalanx::test`.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::test(arguments.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Lists the stages of a struct's fields: see `phalanx::stage::Handles`.
#[proc_macro_derive(Handles, attributes(handles))]
pub fn handles(item: TokenStream) -> TokenStream {
    handles::derive(item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
