//! `#[derive(Handles)]`: the stages of all fields.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Field, Index, Member, Result};

/// Expands `#[derive(Handles)]`.
pub(crate) fn derive(item: TokenStream) -> Result<TokenStream> {
    let item: DeriveInput = syn::parse2(item)?;
    let Data::Struct(data) = &item.data else {
        let message =
            "Handles can be derived for structs only; implement phalanx::stage::Handles by hand";
        return Err(Error::new_spanned(&item.ident, message));
    };
    let mut fields = Vec::new();
    for (at, field) in data.fields.iter().enumerate() {
        if !is_skipped(field)? {
            let index = || Member::Unnamed(Index::from(at));
            fields.push(field.ident.clone().map_or_else(index, Member::Named));
        }
    }
    let name = &item.ident;
    let (generics, arguments, bounds) = item.generics.split_for_impl();
    Ok(quote! {
        impl #generics ::phalanx::stage::Handles for #name #arguments #bounds {
            fn add_to(&self, set: &mut ::phalanx::stage::HandleSet) {
                #(::phalanx::stage::Handles::add_to(&self.#fields, set);)*
            }
        }
    })
}

/// Whether a field has the attribute `#[handles(skip)]`.
fn is_skipped(field: &Field) -> Result<bool> {
    let mut skipped = false;
    for attribute in field.attrs.iter().filter(|each| each.path().is_ident("handles")) {
        attribute.parse_nested_meta(|argument| match argument.path.is_ident("skip") {
            true => {
                skipped = true;
                Ok(())
            }
            false => Err(argument.error("unknown argument; the only one is `skip`")),
        })?;
    }
    Ok(skipped)
}
