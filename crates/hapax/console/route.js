// Where we are: everything that a colleague should see stands in the hash, `#/claims?tenant=acme`.
import { useEffect, useState } from "./html.js";

/** The place that a hash names. */
export const parse = hash => {
  const [path, query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const parts = path.split("/").filter(Boolean).map(part => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  return { parts, query: Object.fromEntries(new URLSearchParams(query)) };
};

/** The hash of a place; what is empty is left out. */
export const link = (parts, query = {}) => {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== null && value !== "") asked.set(name, value);
  const text = asked.toString();
  return "#/" + [].concat(parts).map(encodeURIComponent).join("/") + (text ? "?" + text : "");
};

export const here = () => parse(location.hash);
export const go = (parts, query) => { location.hash = link(parts, query); };

/** Other conditions at the same place. Back leads to those before, unless they are only refined. */
export const refine = changes => {
  const { parts, query } = here();
  history.replaceState(null, "", link(parts, { ...query, ...changes }));
  dispatchEvent(new HashChangeEvent("hashchange"));
};

/** The scope that was chosen, for links that keep it. */
export const scope = () => {
  const { tenant, project } = here().query;
  return { tenant, project };
};

export const usePlace = () => {
  const [place, set] = useState(here);
  useEffect(() => {
    const look = () => set(here());
    addEventListener("hashchange", look);
    return () => removeEventListener("hashchange", look);
  }, []);
  return place;
};
