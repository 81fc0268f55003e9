/** The path of the program `baton`. */
export declare const path: string;
