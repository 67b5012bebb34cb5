// What every view is written with: htm templates on Preact, and Preact's hooks.
import { h, render, Fragment, createContext } from "./vendor/preact.mjs";
import htm from "./vendor/htm.mjs";

export { render, Fragment, createContext };
export * from "./vendor/hooks.mjs";
export const html = htm.bind(h);
