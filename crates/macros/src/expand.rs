//! Checks of the annotated function, and the code in its place.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Error, FnArg, ItemFn, Result, Safety};

use crate::options::Options;

/// Expands `#[phalanx::main]`.
pub(crate) fn main(arguments: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = Options::of_main(arguments)?;
    let function = function("main", item, &options)?;
    let runtime = match (&options.runtime, &options.processors) {
        (Some(runtime), _) => quote!(#runtime),
        (None, Some(processors)) => quote!(::phalanx::Runtime::new().processors(#processors)),
        (None, None) => quote!(::phalanx::Runtime::new()),
    };
    let (declare, call) = (declare(&options), call(&options));
    let output = quote!(-> ::std::process::ExitCode);
    let run = quote! {
        // The result may not be `Send`, so it becomes an exit code on its own thread.
        let main =
            |argument| async move { ::std::process::Termination::report(#call(argument).await) };
        ::phalanx::__private::exit_code(::phalanx::Runtime::block_on(#runtime, #declare, main))
    };
    Ok(wrap(&function, &quote!(), &output, &run))
}

/// Expands `#[phalanx::test]`.
pub(crate) fn test(arguments: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = Options::of_test(arguments)?;
    let item = function("test", item, &options)?;
    let (declare, call) = (declare(&options), call(&options));
    let body = quote! {
        |argument| async move { ::phalanx::__private::TestOutput::check(#call(argument).await) }
    };
    let processors = options.processors.as_ref();
    let simulated = processors.map_or_else(
        || quote!(::core::option::Option::None),
        |processors| quote!(::core::option::Option::Some(#processors)),
    );
    let run = match (&options.seed, &options.seeds) {
        (Some(seed), _) => quote!(::phalanx::sim::block_on(#seed, #simulated, #declare, #body)),
        (None, Some(seeds)) => quote! {
            ::phalanx::sim::explore_each(#seeds, |seed| {
                ::phalanx::sim::block_on(seed, #simulated, #declare, #body)
            })
        },
        (None, None) => {
            let processors = processors.map_or_else(|| quote!(1), |processors| quote!(#processors));
            quote!(::phalanx::__private::run_test(#processors, #declare, #body))
        }
    };
    Ok(wrap(&item, &quote!(#[::core::prelude::v1::test]), &quote!(), &run))
}

/// The annotated function, with a signature that can be run.
fn function(attribute: &str, item: TokenStream, options: &Options) -> Result<ItemFn> {
    let item: ItemFn = syn::parse2(item).map_err(|error| {
        Error::new(error.span(), format!("`#[phalanx::{attribute}]` expects an `async fn`"))
    })?;
    let sig = &item.sig;
    let fail = |spanned: &dyn Spanned, message: String| Err(Error::new(spanned.span(), message));
    if sig.asyncness.is_none() {
        return fail(&sig.fn_token, format!("`#[phalanx::{attribute}]` expects an `async fn`"));
    }
    if !sig.generics.params.is_empty() || sig.generics.where_clause.is_some() {
        return fail(&sig.ident, "this function cannot be generic".into());
    }
    if let Safety::Unsafe(token) = &sig.safety {
        return fail(token, "this function cannot be `unsafe`".into());
    }
    if let Some(abi) = &sig.abi {
        return fail(abi, "this function cannot be `extern`".into());
    }
    if let (Some(extra), _) = (sig.inputs.iter().nth(1), ()) {
        return fail(
            extra,
            "expected at most one parameter: the value returned by `stages`".into(),
        );
    }
    match (sig.inputs.first(), &options.stages) {
        (Some(FnArg::Receiver(receiver)), _) => {
            fail(receiver, "this function cannot be a method".into())
        }
        (Some(parameter), None) => fail(
            parameter,
            format!(
                "nothing supplies this parameter; declare stages with \
                 `#[phalanx::{attribute}(stages = path)]`, or remove the parameter"
            ),
        ),
        (None, Some(stages)) => fail(
            stages,
            "the function needs one parameter for the value returned by `stages`".into(),
        ),
        _ => Ok(item),
    }
}

fn declare(options: &Options) -> TokenStream {
    match &options.stages {
        Some(stages) => quote!(#stages),
        None => quote!(|_: &mut ::phalanx::Graph| ()),
    }
}

fn call(options: &Options) -> TokenStream {
    match &options.stages {
        Some(_) => quote!(__phalanx_body),
        None => quote!((|()| __phalanx_body())),
    }
}

/// A function of the same name that contains the annotated one as `__phalanx_body`, and runs `run`.
fn wrap(item: &ItemFn, test: &TokenStream, output: &TokenStream, run: &TokenStream) -> TokenStream {
    let ItemFn { attrs, vis, sig, block, .. } = item;
    let (name, inputs, body_output) = (&sig.ident, &sig.inputs, &sig.output);
    quote! {
        #(#attrs)*
        #test
        #vis fn #name() #output {
            async fn __phalanx_body(#inputs) #body_output #block
            #run
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(result: Result<TokenStream>) -> String {
        result.expect_err("it is wrong").to_string()
    }

    #[test]
    fn wrong_signatures_are_explained() {
        let main = |item| error(main(quote!(), item));
        assert_eq!(
            main(quote!(
                fn main() {}
            )),
            "`#[phalanx::main]` expects an `async fn`"
        );
        assert_eq!(
            main(quote!(
                struct Main;
            )),
            "`#[phalanx::main]` expects an `async fn`"
        );
        assert_eq!(
            main(quote!(
                async fn main<T>() {}
            )),
            "this function cannot be generic"
        );
        assert_eq!(
            main(quote!(
                async fn main()
                where
                    u8: Copy,
                {
                }
            )),
            "this function cannot be generic"
        );
        for qualifier in ["unsafe", "extern"] {
            let order = if qualifier == "unsafe" { "async unsafe" } else { "async extern \"C\"" };
            let item = format!("{order} fn main() {{}}").parse().unwrap();
            assert_eq!(main(item), format!("this function cannot be `{qualifier}`"));
        }
        assert_eq!(
            main(quote!(
                async fn main(self) {}
            )),
            "this function cannot be a method"
        );
        assert!(
            main(quote!(
                async fn main(a: u8) {}
            ))
            .starts_with("nothing supplies this parameter")
        );
        let two = main(quote!(
            async fn main(a: u8, b: u8) {}
        ));
        assert_eq!(two, "expected at most one parameter: the value returned by `stages`");
        let none = error(super::main(
            quote!(stages = declare),
            quote!(
                async fn main() {}
            ),
        ));
        assert_eq!(none, "the function needs one parameter for the value returned by `stages`");
    }

    #[test]
    fn wrong_options_are_explained() {
        let main = |options| {
            error(main(
                options,
                quote!(
                    async fn main() {}
                ),
            ))
        };
        let known = "unknown option; known are `processors`, `stages`, `runtime`";
        assert_eq!(main(quote!(threads = 2)), known);
        assert_eq!(main(quote!(processors = 0)), "at least 1");
        assert_eq!(main(quote!(processors = "two")), "expected integer literal");
        assert_eq!(main(quote!(processors = 1, processors = 2)), "`processors` is given twice");
        let both = main(quote!(processors = 1, runtime = Runtime::new()));
        assert!(both.starts_with("`runtime` and `processors` exclude each other"), "{both}");
        let test = |options| {
            error(test(
                options,
                quote!(
                    async fn it_works() {}
                ),
            ))
        };
        assert_eq!(test(quote!(seed = 1, seeds = 2)), "`seed` and `seeds` exclude each other");
        assert!(test(quote!(runtime = Runtime::new())).starts_with("unknown option"));
    }

    #[test]
    fn attributes_and_visibility_are_kept() {
        let item = quote! {
            #[should_panic]
            pub async fn it_works() -> Result<(), Error> { Ok(()) }
        };
        let text = test(quote!(), item.clone()).unwrap().to_string();
        assert!(
            text.contains("# [should_panic]") && text.contains("pub fn it_works () {"),
            "{text}"
        );
        assert!(text.contains("run_test (1 ,"), "{text}");
        let simulated = test(quote!(seed = 7, processors = 2), item).unwrap().to_string();
        assert!(simulated.contains("sim :: block_on (7 , "), "{simulated}");
    }
}
