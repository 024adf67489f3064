/* Where the program speaks: a terminal, or a debugger that listens to a board. */
#ifndef CONSOLE_H
#define CONSOLE_H

/* Writes a text as it is. */
void console_write(const char *text);

/* Most bytes of stack that were in use since the start; -1 where nobody measures it. */
long console_stack_used(void);

#endif
